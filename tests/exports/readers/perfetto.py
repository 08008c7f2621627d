"""Reads a trace of Perfetto by its own messages; its trace_processor is downloaded at first use, so no test can have it."""

import gzip
from importlib.metadata import version
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from . import Sums

CLEARED, NEEDED = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED, pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
TABLES = [
    "function_names", "frames", "callstacks", "mappings", "mapping_paths", "build_ids", "source_paths", "event_names", "event_categories",
    "debug_annotation_names", "stack_sample_task_contexts", "stack_sample_execution_contexts", "stack_sample_counter_descriptors",
]


class Sequence:
    """What the packets of one sequence have said so far."""

    def __init__(self):
        self.defaults, self.valid = pb.TracePacketDefaults(), False
        self.clear()

    def clear(self):
        self.tables = {name: {} for name in TABLES}

    def intern(self, data, wrong):
        for name, table in self.tables.items():
            for it in getattr(data, name):
                if it.iid == 0:
                    wrong.append(f"interned_data.{name} has an entry without iid")
                elif it.iid in table and table[it.iid] != it:
                    wrong.append(f"interned_data.{name} {it.iid} is defined twice")
                table[it.iid] = it


class Trace:
    def __init__(self):
        self.sums, self.wrong, self.sequences = Sums(), [], {}
        self.tracks, self.slices, self.counters, self.open, self.events = {}, {}, {}, {}, []
        self.processes, self.threads, self.by_thread, self.lines = {}, {}, {}, {}
        self.facts = {
            "sources": set(), "units": {}, "modes": {}, "cpus": set(), "build_ids": {}, "clocks": {}, "unwind_errors": {},
            "frame_kinds": {}, "used_clocks": set(), "samples": 0, "without_stack": 0,
        }
        self.first, self.last = None, None

    def packet(self, packet):
        sequence = self.sequences.setdefault(packet.trusted_packet_sequence_id, Sequence())
        if packet.sequence_flags & CLEARED or packet.incremental_state_cleared:
            sequence.clear()
            sequence.valid = True
        if packet.sequence_flags & NEEDED and not sequence.valid:
            self.wrong.append(f"a packet of sequence {packet.trusted_packet_sequence_id} needs state that none has set")
        if packet.HasField("trace_packet_defaults"):
            sequence.defaults = packet.trace_packet_defaults
        if packet.HasField("interned_data"):
            sequence.intern(packet.interned_data, self.wrong)
        kind = packet.WhichOneof("data")
        if kind in ("stack_sample", "track_event"):
            if not packet.trusted_packet_sequence_id:
                self.wrong.append(f"a {kind} has no sequence")
            clock = packet.timestamp_clock_id or sequence.defaults.timestamp_clock_id or pb.BUILTIN_CLOCK_BOOTTIME
            self.facts["used_clocks"].add(clock)
            self.first, self.last = min(packet.timestamp, self.first or packet.timestamp), max(packet.timestamp, self.last or 0)
        if kind == "stack_sample":
            self.sample(packet.stack_sample, sequence, packet)
        elif kind == "track_event":
            self.event(packet.track_event, sequence, packet.timestamp)
        elif kind == "clock_snapshot":
            self.facts["clocks"] = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
        elif kind == "process_tree":
            for it in packet.process_tree.processes:
                self.processes[it.pid] = " ".join(it.cmdline)
            for it in packet.process_tree.threads:
                self.threads[it.tid] = it.name

    def found(self, sequence, table, iid):
        it = sequence.tables[table].get(iid)
        if it is None:
            self.wrong.append(f"interned_data.{table} has no {iid}")
        return it

    def sample(self, sample, sequence, packet):
        self.facts["samples"] += 1
        defaults = sequence.defaults.stack_sample_defaults
        if defaults.source:
            self.facts["sources"].add(defaults.source)
        if sample.HasField("task_context_iid"):
            task = self.found(sequence, "stack_sample_task_contexts", sample.task_context_iid)
        else:
            task = sample.task_context
        if sample.HasField("execution_context_iid"):
            execution = self.found(sequence, "stack_sample_execution_contexts", sample.execution_context_iid)
        else:
            execution = sample.execution_context
        if execution is not None and execution.HasField("cpu"):
            self.facts["cpus"].add(execution.cpu)
        if execution is not None and execution.HasField("mode"):
            count(self.facts["modes"], pb.StackSample.Mode.Name(execution.mode))
        if sample.WhichOneof("unwind_error_field"):
            count(self.facts["unwind_errors"], sample.unwind_error)
        descriptors = [self.primary(sample, sequence, defaults)]
        weights = [sample.primary_weight]
        followers = list(sample.follower_descriptors)
        interned = [self.found(sequence, "stack_sample_counter_descriptors", iid) for iid in sample.follower_descriptor_iids]
        followers = followers or interned
        followers = followers or list(defaults.follower_descriptors)
        if len(sample.follower_weights) > len(followers):
            self.wrong.append("a sample has more weights than counters")
        descriptors += followers
        weights += sample.follower_weights
        stack = self.stack(sample, sequence)
        if stack and task is not None:
            self.by_thread.setdefault(f"{task.pid}/{task.tid}", 0)
            self.by_thread[f"{task.pid}/{task.tid}"] += 1
        if not stack:
            self.facts["without_stack"] += 1
        for descriptor, weight in zip(descriptors, weights):
            if descriptor is None or not descriptor.name:
                self.wrong.append("a weight has no counter with a name")
                continue
            unit = descriptor.unit_str or pb.StackSample.Unit.Name(descriptor.unit)
            self.facts["units"][descriptor.name] = unit
            self.sums.add(descriptor.name, [name for name, _ in stack], weight * (descriptor.unit_multiplier or 1))
            if stack and stack[-1][1]:
                count(self.lines.setdefault(descriptor.name, {}).setdefault(stack[-1][0], {}), str(stack[-1][1]), weight)

    def primary(self, sample, sequence, defaults):
        if sample.HasField("primary_descriptor"):
            return sample.primary_descriptor
        if sample.HasField("primary_descriptor_iid"):
            return self.found(sequence, "stack_sample_counter_descriptors", sample.primary_descriptor_iid)
        return defaults.primary_descriptor if defaults.HasField("primary_descriptor") else None

    def stack(self, sample, sequence):
        """Names and lines of a stack; in both forms the outermost frame is the first."""
        if sample.HasField("callstack"):
            return [(it.function_name, it.line_number) for it in sample.callstack.frames]
        if not sample.HasField("callstack_iid"):
            return []
        callstack = self.found(sequence, "callstacks", sample.callstack_iid)
        return [self.frame(sequence, iid) for iid in callstack.frame_ids] if callstack else []

    def frame(self, sequence, iid):
        frame = self.found(sequence, "frames", iid)
        if frame is None:
            return "?", 0
        name = self.found(sequence, "function_names", frame.function_name_id)
        if frame.WhichOneof("kind_field"):
            count(self.facts["frame_kinds"], frame.kind_str or pb.Frame.Kind.Name(frame.kind))
        if frame.source_path_iid:
            self.found(sequence, "source_paths", frame.source_path_iid)
        if frame.mapping_id and (mapping := self.found(sequence, "mappings", frame.mapping_id)):
            parts = [self.found(sequence, "mapping_paths", iid) for iid in mapping.path_string_ids]
            path = "/".join(it.str.decode() for it in parts if it)
            if mapping.build_id and (build_id := self.found(sequence, "build_ids", mapping.build_id)):
                self.facts["build_ids"][path] = build_id.str.hex()
            else:
                self.facts["build_ids"].setdefault(path, "")
        return (name.str.decode() if name else "?"), frame.line_number

    def track(self, it):
        name = it.name or it.static_name
        self.tracks[it.uuid] = {"name": name, "parent": it.parent_uuid, "counter": it.HasField("counter")}
        if it.HasField("process"):
            self.processes[it.process.pid] = it.process.process_name or name
        if it.HasField("thread"):
            self.threads[it.thread.tid] = it.thread.thread_name or name
            self.tracks[it.uuid]["thread"] = f"{it.thread.pid}/{it.thread.tid}"
        if it.HasField("counter"):
            self.counters[name] = {"unit": it.counter.unit_name or pb.CounterDescriptor.Unit.Name(it.counter.unit), "values": []}

    def event(self, event, sequence, time):
        uuid = event.track_uuid or sequence.defaults.track_event_defaults.track_uuid
        track = self.tracks.get(uuid)
        if track is None:
            self.wrong.append(f"an event is on track {uuid}, which none has described")
            return
        if event.type == pb.TrackEvent.TYPE_COUNTER:
            if not track["counter"]:
                self.wrong.append(f"a counter's value is on track {uuid}, which is no counter")
                return
            value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            self.counters[track["name"]]["values"].append(value)
            return
        name = event.name
        if event.name_iid:
            found = self.found(sequence, "event_names", event.name_iid)
            name = found.name if found else "?"
        self.events.append((time, len(self.events), uuid, event.type, name))

    def nest(self):
        """Makes slices of the events that begin and end them, in the order of time."""
        for time, _, uuid, kind, name in sorted(self.events):
            if kind == pb.TrackEvent.TYPE_SLICE_BEGIN:
                self.open.setdefault(uuid, []).append((name, time))
            elif kind == pb.TrackEvent.TYPE_INSTANT:
                self.slices.setdefault(name, {"count": 0, "ns": 0})["count"] += 1
            elif not self.open.get(uuid):
                self.wrong.append(f"a slice ends on track {uuid} where none is open")
            else:
                name, begun = self.open[uuid].pop()
                entry = self.slices.setdefault(name, {"count": 0, "ns": 0})
                entry["count"] += 1
                entry["ns"] += time - begun
        for uuid, left in self.open.items():
            self.wrong += [f"slice {name} does not end on track {uuid}" for name, _ in left]


def count(counts, key, by=1):
    counts[key] = counts.get(key, 0) + by


def read(options):
    data = Path(options.file).read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    message = pb.Trace.FromString(gzip.decompress(data) if packed else data)
    trace = Trace()
    # As in trace_processor, the description of a track may come after its events.
    for packet in message.packet:
        if packet.HasField("track_descriptor"):
            trace.track(packet.track_descriptor)
    for packet in message.packet:
        trace.packet(packet)
    trace.nest()
    again = message.SerializeToString(deterministic=True)
    facts = {key: sorted(value) if isinstance(value, set) else value for key, value in trace.facts.items()}
    facts |= {
        "gzip": packed, "packets": len(message.packet), "wrong": list(dict.fromkeys(trace.wrong))[:20],
        "unknown_fields": len(data) != len(again) and not packed,
        "processes": trace.processes, "threads": trace.threads, "samples_by_thread": trace.by_thread, "slices": trace.slices,
        "counters": {name: {"unit": it["unit"], "count": len(it["values"]), "last": it["values"][-1:], "sum": sum(it["values"])}
                     for name, it in trace.counters.items()},
        "tracks": sorted(it["name"] for it in trace.tracks.values()), "sequences": len(trace.sequences), "lines": trace.lines,
        "first_ns": trace.first, "last_ns": trace.last,
    }
    return trace.sums.result(f"perfetto {version('perfetto')}, messages", facts)
