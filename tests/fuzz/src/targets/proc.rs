//! Text of `/proc` and `/sys`: mappings, status, cgroups, CPU lists.

use super::FREE_BYTES;
use crate::{memory, recorder};

/// Reads bytes as every kind of text.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 4 * data.len(), || {
        recorder::maps(data);
        recorder::status(data);
        recorder::cgroups(data);
        recorder::cpu_list(data);
    });
}

/// Texts of real processes and machines.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 8] = [
        b"55d0c0a00000-55d0c0a26000 r--p 00000000 fe:00 131 /usr/bin/a b\n\
          55d0c0a26000-55d0c0b00000 r-xp 00026000 fe:00 131                        /usr/bin/a b\n\
          7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n\
          7f1000000000-7f1000010000 r-xp 00001000 00:2a 918 /tmp/a\\012b (deleted)\n\
          7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0                          [vdso]\n\
          ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n",
        b"Name:\tbash\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t817\nNgid:\t0\nPid:\t817\nPPid:\t816\n\
          TracerPid:\t0\nUid:\t0\t0\t0\t0\n",
        b"Name:\t\xc3\nState:\tZ (zombie)\nTgid:\t17\nPPid:\t1\n",
        b"9:name=systemd:/\n4:cpu,cpuacct:/docker/12\n0::/a.slice/b:c (deleted)\n",
        b"26 24 0:23 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:10 - cgroup2 cgroup2 rw\n",
        b"0-7\n",
        b"0,2-3,8-15\n",
        b"4095\n",
    ];
    texts.map(<[u8]>::to_vec).into()
}
