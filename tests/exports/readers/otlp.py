"""Reads profiles of OpenTelemetry: checks what profcheck checks, then sends them by gRPC to a receiver and sums what that got."""

import os
from concurrent import futures
from importlib.metadata import version
from pathlib import Path

# It reports that a server ends, which is no error.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2_grpc as stubs

from . import Sums

TABLES = ["mapping_table", "location_table", "function_table", "link_table", "string_table", "attribute_table", "stack_table"]
LARGEST = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def read(options):
    data = Path(options.file).read_bytes()
    # ProfilesData has the same fields with the same numbers.
    request = service.ExportProfilesServiceRequest.FromString(data)
    check = Check(request)
    received = send(request)
    sums, facts = summed(received)
    facts |= {
        "wrong": listed(check.wrong), "advice": listed(check.advice), "orphans": orphans(request), "bytes": len(data),
        "same": received == request, "unknown_fields": len(request.SerializeToString()) != len(data),
    }
    return sums.result(f"opentelemetry-proto {version('opentelemetry-proto')}; grpcio {grpc.__version__}", facts)


def send(request):
    """Sends a request to a receiver on loopback; returns what the receiver got."""
    got = []

    class Receiver(stubs.ProfilesServiceServicer):
        def Export(self, message, _):
            got.append(message)
            return service.ExportProfilesServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(1), options=LARGEST)
    stubs.add_ProfilesServiceServicer_to_server(Receiver(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        # A proxy that the environment names does not reach this machine.
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[*LARGEST, ("grpc.enable_http_proxy", 0)]) as channel:
            answer = stubs.ProfilesServiceStub(channel).Export(request, timeout=60)
    finally:
        server.stop(None).wait()
    if answer.partial_success.rejected_profiles:
        raise SystemExit(f"the receiver rejects profiles: {answer}")
    return got[0]


def listed(found):
    return list(dict.fromkeys(found))[:20]


class Check:
    """The rules of profcheck, the checker of the OpenTelemetry project; `advice` is what the messages should have, besides."""

    def __init__(self, request):
        self.wrong, self.advice, self.dictionary = [], [], request.dictionary
        self.tables()
        if not request.resource_profiles:
            self.wrong.append("there are no resource_profiles")
        for at, resource in enumerate(request.resource_profiles):
            if not resource.scope_profiles or not all(scope.profiles for scope in resource.scope_profiles):
                self.wrong.append(f"resource_profiles[{at}] has no profiles, or a scope of it has none")
            for scope in resource.scope_profiles:
                for number, profile in enumerate(scope.profiles):
                    self.profile(profile, f"profile {number} of resource {at}")

    def index(self, what, table, index):
        if not 0 <= index < len(getattr(self.dictionary, table)):
            self.wrong.append(f"{what} is {index}, of {len(getattr(self.dictionary, table))} in {table}")

    def indices(self, what, table, indices):
        for index in indices:
            self.index(what, table, index)

    def tables(self):
        for name in TABLES:
            table = getattr(self.dictionary, name)
            if not table:
                self.wrong.append(f"{name} is empty: its first element is the zero value")
            elif table[0] != ("" if name == "string_table" else type(table[0])()):
                self.wrong.append(f"{name}[0] is not the zero value")
            kept = [it if isinstance(it, str) else it.SerializeToString(deterministic=True) for it in table]
            if len(kept) != len(set(kept)):
                self.advice.append(f"{name} has {len(kept) - len(set(kept))} duplicates")
        for at, it in enumerate(self.dictionary.mapping_table):
            self.index(f"mapping_table[{at}].filename_strindex", "string_table", it.filename_strindex)
            self.indices(f"mapping_table[{at}].attribute_indices", "attribute_table", it.attribute_indices)
            if (it.memory_start or it.memory_limit) and it.memory_limit <= it.memory_start:
                self.wrong.append(f"mapping_table[{at}] ends before it begins")
        for at, it in enumerate(self.dictionary.location_table):
            self.index(f"location_table[{at}].mapping_index", "mapping_table", it.mapping_index)
            self.indices(f"location_table[{at}].lines.function_index", "function_table", [line.function_index for line in it.lines])
            self.indices(f"location_table[{at}].attribute_indices", "attribute_table", it.attribute_indices)
            if any(line.line < 0 or line.column < 0 for line in it.lines):
                self.wrong.append(f"location_table[{at}] has a negative line or column")
        for at, it in enumerate(self.dictionary.function_table):
            self.indices(f"function_table[{at}]", "string_table", [it.name_strindex, it.system_name_strindex, it.filename_strindex])
            if it.start_line < 0:
                self.wrong.append(f"function_table[{at}] has a negative line")
        for at, it in enumerate(self.dictionary.stack_table):
            self.indices(f"stack_table[{at}].location_indices", "location_table", it.location_indices)
        for at, it in enumerate(self.dictionary.attribute_table):
            self.indices(f"attribute_table[{at}]", "string_table", [it.key_strindex, it.unit_strindex])
            if at and not it.key_strindex:
                self.advice.append(f"attribute_table[{at}] has no key")
        for at, it in enumerate(self.dictionary.link_table):
            if at and (len(it.trace_id) != 16 or len(it.span_id) != 8):
                self.wrong.append(f"link_table[{at}] has ids of other lengths than 16 and 8 bytes")

    def profile(self, profile, what):
        for kind in (profile.sample_type, profile.period_type):
            self.indices(f"{what}: a type", "string_table", [kind.type_strindex, kind.unit_strindex])
        self.indices(f"{what}: attribute_indices", "attribute_table", profile.attribute_indices)
        if len(profile.profile_id) not in (0, 16):
            self.wrong.append(f"{what}: profile_id has {len(profile.profile_id)} bytes, not 16")
        if bool(profile.original_payload) != bool(profile.original_payload_format):
            self.wrong.append(f"{what}: it has a payload without a format, or a format without a payload")
        keys = [self.key(index) for index in profile.attribute_indices]
        if len(keys) != len(set(keys)):
            self.wrong.append(f"{what}: an attribute is there twice")
        shapes, end, seen = set(), profile.time_unix_nano + profile.duration_nano, set()
        for at, sample in enumerate(profile.samples):
            here = f"{what}, sample {at}"
            self.index(f"{here}: stack_index", "stack_table", sample.stack_index)
            self.index(f"{here}: link_index", "link_table", sample.link_index)
            self.indices(f"{here}: attribute_indices", "attribute_table", sample.attribute_indices)
            values, times = len(sample.values), len(sample.timestamps_unix_nano)
            if values and times and values != times or not values and not times:
                self.wrong.append(f"{here}: it has {values} values and {times} timestamps")
            shapes.add((bool(values), bool(times)))
            if any(not profile.time_unix_nano <= time < end for time in sample.timestamps_unix_nano):
                self.wrong.append(f"{here}: a timestamp is outside of [time, time + duration)")
            identity = (sample.stack_index, tuple(sorted(sample.attribute_indices)), sample.link_index)
            if identity in seen:
                self.advice.append(f"{here}: a sample before it has the same stack, attributes and link")
            seen.add(identity)
            if not times and values > 1:
                self.wrong.append(f"{here}: it has {values} values without timestamps")
        if len(shapes) > 1:
            self.wrong.append(f"{what}: its samples have different shapes")

    def key(self, index):
        table, strings = self.dictionary.attribute_table, self.dictionary.string_table
        return strings[table[index].key_strindex] if 0 <= index < len(table) else index


def orphans(request):
    """How many entries of each table none refers to, where there are any."""
    d = request.dictionary
    profiles = [profile for resource in request.resource_profiles for scope in resource.scope_profiles for profile in scope.profiles]
    samples = [sample for profile in profiles for sample in profile.samples]
    types = [kind for profile in profiles for kind in (profile.sample_type, profile.period_type)]
    holders = [*profiles, *samples, *d.mapping_table, *d.location_table]
    values = [it.value for it in d.attribute_table]
    keys = [it for resource in request.resource_profiles for it in resource.resource.attributes]
    used = {
        "mapping_table": {it.mapping_index for it in d.location_table},
        "location_table": {index for it in d.stack_table for index in it.location_indices},
        "function_table": {line.function_index for it in d.location_table for line in it.lines},
        "link_table": {it.link_index for it in samples},
        "stack_table": {it.stack_index for it in samples},
        "attribute_table": {index for it in holders for index in it.attribute_indices},
        "string_table": {index for it in types for index in (it.type_strindex, it.unit_strindex)}
        | {it.filename_strindex for it in d.mapping_table}
        | {index for it in d.function_table for index in (it.name_strindex, it.system_name_strindex, it.filename_strindex)}
        | {index for it in d.attribute_table for index in (it.key_strindex, it.unit_strindex)}
        | {it.string_value_strindex for it in values} | {it.key_strindex for it in keys} | {it.value.string_value_strindex for it in keys},
    }
    found = {name: len(set(range(1, len(getattr(d, name)))) - indices) for name, indices in used.items()}
    return {name: number for name, number in found.items() if number}


def summed(request):
    d, sums = request.dictionary, Sums()
    facts = {
        "units": {}, "resources": [], "scopes": [], "sample_attributes": {}, "values_of_attributes": {}, "mappings": [],
        "frame_types": {}, "periods": {}, "profiles": [], "payloads": [],
        "inlined": sum(len(it.lines) > 1 for it in d.location_table), "tables": {name: len(getattr(d, name)) for name in TABLES},
    }
    names = [frames(d, it) for it in d.stack_table]
    for it in d.mapping_table[1:]:
        facts["mappings"].append({
            "file": d.string_table[it.filename_strindex], "start": it.memory_start, "limit": it.memory_limit, "offset": it.file_offset,
            **attributes(d, it.attribute_indices),
        })
    for it in d.location_table:
        for key, value in attributes(d, it.attribute_indices).items():
            if key == "profile.frame.type":
                facts["frame_types"][value] = facts["frame_types"].get(value, 0) + 1
    for resource in request.resource_profiles:
        facts["resources"].append({it.key or d.string_table[it.key_strindex]: plain(d, it.value) for it in resource.resource.attributes})
        for scope in resource.scope_profiles:
            facts["scopes"].append([scope.scope.name, scope.scope.version])
            for profile in scope.profiles:
                profile_sums(d, profile, names, sums, facts)
    return sums, facts


def profile_sums(d, profile, names, sums, facts):
    event = d.string_table[profile.sample_type.type_strindex]
    facts["units"][event] = d.string_table[profile.sample_type.unit_strindex]
    period = profile.period_type
    facts["periods"][event] = [profile.period, d.string_table[period.type_strindex], d.string_table[period.unit_strindex]]
    facts["profiles"].append({
        "event": event, "samples": len(profile.samples), "time_ns": profile.time_unix_nano, "duration_ns": profile.duration_nano,
        "id": profile.profile_id.hex(), **attributes(d, profile.attribute_indices),
    })
    if profile.original_payload_format:
        facts["payloads"].append([profile.original_payload_format, len(profile.original_payload)])
    for sample in profile.samples:
        # Timestamps without values count one each.
        weight = sum(sample.values) if sample.values else len(sample.timestamps_unix_nano)
        sums.add(event, names[sample.stack_index], weight)
        for key, what in attributes(d, sample.attribute_indices).items():
            facts["sample_attributes"][key] = facts["sample_attributes"].get(key, 0) + 1
            values = facts["values_of_attributes"].setdefault(key, [])
            if what not in values and len(values) < 100:
                values.append(what)


def frames(d, stack):
    """Names of a stack, outermost first; in the message the innermost is the first, as are the lines of a location."""
    found = []
    for index in stack.location_indices:
        location = d.location_table[index]
        if location.lines:
            found += [d.string_table[d.function_table[line.function_index].name_strindex] for line in location.lines]
        else:
            found.append(f"{location.address:#x}")
    return found[::-1]


def attributes(d, indices):
    return {d.string_table[d.attribute_table[index].key_strindex]: plain(d, d.attribute_table[index].value) for index in indices}


def plain(d, any_value):
    kind = any_value.WhichOneof("value")
    if kind == "string_value_strindex":
        return d.string_table[any_value.string_value_strindex]
    if kind == "array_value":
        return [plain(d, it) for it in any_value.array_value.values]
    found = getattr(any_value, kind) if kind else None
    return found.hex() if isinstance(found, bytes) else found
