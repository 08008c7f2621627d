//! What time, disks and transfers do to a file: cuts, flips, blocks that are swapped, doubled or gone.

use icecore_format::header;
use icecore_format::index::TAIL_LEN;
use icecore_format::read::Recording;
use icecore_format::{block, limits};

use super::sample::{How, Parts, all_but, entries, payloads, read, recording};

const HOW: [How; 3] = [How::Open, How::Closed, How::Streamed];

#[test]
fn what_is_written_is_read_back_and_says_whether_it_is_closed() {
    for how in HOW {
        let read = read(&recording(how)).expect("own file");
        assert_eq!((read.closed, read.whole, read.said), (how != How::Open, all_but(&[]), vec![]), "{how:?}");
    }
}

#[test]
fn every_block_begins_at_a_multiple_of_the_alignment_and_the_index_repeats_its_header() {
    let bytes = recording(How::Closed);
    for entry in entries(&bytes) {
        assert_eq!(entry.off % limits::ALIGN, 0);
        assert_eq!(bytes[entry.off as usize..][..4], block::MAGIC);
        assert!(entry.header.processes.may_hold(7) && !entry.header.processes.may_hold(8));
        assert_eq!((entry.header.first_ns, entry.header.last_ns), (1000, 2000));
    }
    let without_tail = &bytes[..bytes.len() - TAIL_LEN];
    assert_eq!(entries(without_tail), entries(&bytes));
}

#[test]
fn cut_at_every_byte_it_keeps_whole_blocks_and_says_that_the_end_is_missing() {
    for how in HOW {
        let bytes = recording(how);
        let ends: Vec<u64> = entries(&bytes).iter().map(|entry| entry.header.end(entry.off)).collect();
        let ends_behind_padding = entries(&bytes).iter().any(|e| e.header.next(e.off) != e.header.end(e.off));
        assert!(ends_behind_padding, "the sample should have padding");
        for len in 0..bytes.len() {
            let Ok(read) = read(&bytes[..len]) else {
                assert!(len < header::LEN, "cut at {len}");
                continue;
            };
            let whole = ends.iter().filter(|end| **end <= len as u64).count();
            assert_eq!(read.whole, all_but(&(whole..payloads().len()).collect::<Vec<_>>()), "cut at {len}");
            assert!(!read.closed, "cut at {len}");
            let inside = !entries(&bytes)
                .iter()
                .any(|e| (e.header.end(e.off)..=e.header.next(e.off)).contains(&(len as u64)));
            let at_first = len == header::LEN;
            if how == How::Closed {
                assert!(read.says("it was closed once"), "cut at {len}: {:?}", read.said);
            } else if inside && !at_first && whole < payloads().len() {
                assert!(!read.said.is_empty(), "cut at {len}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_costs_at_most_the_block_that_it_hits_and_is_told() {
    for how in HOW {
        let good = recording(how);
        let blocks = entries(&good);
        let blocks_end = blocks.last().map_or(0, |last| last.header.next(last.off)) as usize;
        for bit in 0..good.len() * 8 {
            let at = bit / 8;
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (bit % 8);
            let Ok(read) = read(&bytes) else {
                assert!(at < header::LEN, "{how:?} bit {bit}");
                continue;
            };
            assert!(at >= header::LEN, "{how:?} bit {bit} of the file header went unnoticed");
            let hit = blocks.iter().position(|e| (e.off..e.header.end(e.off)).contains(&(at as u64)));
            let told = !read.said.is_empty();
            match hit {
                Some(hit) => {
                    assert_eq!(read.whole, all_but(&[hit]), "{how:?} bit {bit}");
                    let is_last = hit + 1 == blocks.len();
                    let is_named = read.says(&format!("block {hit} ")) || read.says(&format!("{hit}: "));
                    assert!(
                        is_named || how == How::Open && is_last && told,
                        "{how:?} bit {bit}: {:?}",
                        read.said
                    );
                }
                // Padding holds nothing; a damaged tail of a stream only makes it unclosed.
                None => {
                    assert_eq!(read.whole, all_but(&[]), "{how:?} bit {bit}");
                    let is_padding = at < blocks_end || good[at] == 0 && read.closed;
                    assert!(told || is_padding || !read.closed, "{how:?} bit {bit}");
                }
            }
        }
    }
}

#[test]
fn every_bit_of_index_and_tail_is_checked() {
    let parts = Parts::new(How::Closed);
    let good = parts.joined();
    let index = good.len() - parts.tail.len() - parts.index.len();
    for bit in index * 8..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = read(&bytes).expect("the file header is whole");
        assert_eq!(read.whole, all_but(&[]), "bit {bit}");
        let end = entries_end(&parts);
        let is_padding = (end..good.len() - TAIL_LEN).contains(&(bit / 8));
        assert_eq!(read.said.is_empty(), is_padding, "bit {bit}: {:?}", read.said);
        assert_eq!(read.closed, bit / 8 < good.len() - TAIL_LEN, "bit {bit}");
    }
}

/// Where the payload of the index ends.
fn entries_end(parts: &Parts) -> usize {
    let bytes = parts.joined();
    let off = bytes.len() - parts.tail.len() - parts.index.len();
    let header = block::BlockHeader::decode(&bytes, off as u64, parts.seed()).expect("own index");
    header.end(off as u64) as usize
}

/// Every way to lose the end: with index and tail, without the tail, without both.
fn endings(parts: &Parts) -> [Vec<u8>; 3] {
    let whole = parts.joined();
    let without = |len: usize| whole[..whole.len() - len].to_vec();
    [whole.clone(), without(parts.tail.len()), without(parts.tail.len() + parts.index.len())]
}

#[test]
fn swapped_blocks_are_read_in_the_order_of_writing_and_nothing_is_lost() {
    let good = Parts::new(How::Closed);
    for a in 0..good.blocks.len() {
        for b in a + 1..good.blocks.len() {
            let mut parts = good.clone();
            parts.blocks.swap(a, b);
            for bytes in endings(&parts) {
                let read = read(&bytes).expect("a header");
                assert_eq!(read.whole, all_but(&[]), "{a} and {b}: {:?}", read.said);
                assert!(read.says("read in the order of writing"), "{a} and {b}: {:?}", read.said);
            }
        }
    }
    let mut parts = good;
    let (index, last) = (parts.index.clone(), parts.blocks.pop().expect("seven"));
    parts.blocks.push(index);
    parts.index = last;
    let read = read(&parts.joined()).expect("a header");
    assert_eq!((&read.whole, read.closed), (&all_but(&[]), true));
    assert!(read.says("the index is not used"), "{:?}", read.said);
}

#[test]
fn a_block_that_stands_twice_counts_once() {
    let good = Parts::new(How::Closed);
    for number in 0..good.blocks.len() {
        for at in number + 1..=good.blocks.len() {
            let mut parts = good.clone();
            parts.blocks.insert(at, good.blocks[number].clone());
            for bytes in endings(&parts) {
                let read = read(&bytes).expect("a header");
                assert_eq!(read.whole, all_but(&[]), "{number} at {at}");
                let copy = format!("block {number} ");
                assert!(
                    read.said.iter().any(|s| s.contains(&copy) && s.contains("stands here again")),
                    "{:?}",
                    read.said
                );
            }
        }
    }
}

#[test]
fn a_damaged_first_copy_gives_way_to_a_whole_one() {
    let mut parts = Parts::new(How::Open);
    parts.blocks.insert(3, parts.blocks[2].clone());
    parts.blocks[2][70] ^= 1;
    let read = read(&parts.joined()).expect("a header");
    assert_eq!(read.whole, all_but(&[]));
    assert!(read.says("block 2 (kind_900, 100 items): checksum"), "{:?}", read.said);
}

#[test]
fn blocks_that_are_gone_are_named() {
    let good = Parts::new(How::Closed);
    for number in 0..good.blocks.len() {
        let mut parts = good.clone();
        parts.blocks.remove(number);
        for (ending, bytes) in endings(&parts).iter().enumerate() {
            let read = read(bytes).expect("a header");
            assert_eq!(read.whole, all_but(&[number]));
            // Without index and tail nothing tells that there was one more.
            let is_known = ending < 2 || number + 1 < good.blocks.len();
            assert_eq!(read.says(&format!("block {number} is missing")), is_known, "{:?}", read.said);
        }
    }
    let mut parts = good.clone();
    parts.blocks.drain(2..5);
    assert!(read(&parts.joined()).expect("a header").says("blocks 2 to 4 are missing"));
    // Zeros over one block, as a disk gives them back: the index still knows what stood there.
    let mut parts = good;
    parts.blocks[2].fill(0);
    let read = read(&parts.joined()).expect("a header");
    assert!(read.says("block 2 (kind_900, 100 items): block header at byte"), "{:?}", read.said);
    assert!(read.closed);
}

#[test]
fn what_follows_the_end_is_told_and_not_read() {
    for how in [How::Closed, How::Streamed] {
        let good = recording(how);
        for more in [&b"x"[..], &[0; 100], &good, &good[header::LEN..]] {
            let read = read(&[&good[..], more].concat()).expect("a header");
            assert_eq!((read.closed, &read.whole), (true, &all_but(&[])));
            let said = format!(
                "{} bytes at byte {}: these bytes follow the end of the recording",
                more.len(),
                good.len()
            );
            assert_eq!(read.said, [said]);
        }
    }
}

#[test]
fn a_block_that_goes_on_behind_the_end_of_the_file_is_called_cut() {
    let bytes = recording(How::Open);
    let read = read(&bytes[..bytes.len() - 6]).expect("a header");
    assert!(
        read.says("block 6 (receipt, 3 items): the file ends 1 bytes before its payload does"),
        "{:?}",
        read.said
    );
}

#[test]
fn a_file_opens_by_path_and_by_descriptor_as_from_memory() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    std::fs::write(&path, recording(How::Streamed)).expect("room");
    let file = std::fs::File::open(&path).expect("just written");
    for recording in [Recording::open(&path), Recording::from_file(&file)] {
        let recording = recording.expect("own file");
        assert!(recording.is_closed() && recording.damage().is_empty());
    }
}
