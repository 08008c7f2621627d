//! A user of this machine, as whom the command runs.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The most bytes of one entry of the user database, and the most groups of a user (`NGROUPS_MAX` of Linux).
const MAX_ENTRY_BYTES: usize = 1 << 20;
const MAX_GROUPS: usize = 1 << 16;
/// `_LINUX_CAPABILITY_VERSION_3` of uapi/linux/capability.h.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The variables of the environment that a command of another user keeps, beside `LC_…`.
const KEPT: [&str; 7] = ["PATH", "TERM", "COLORTERM", "DISPLAY", "LANG", "LANGUAGE", "LS_COLORS"];

/// A user, and what a login would give to the user's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
    /// All groups, `gid` among them.
    groups: Vec<u32>,
    name: OsString,
    home: OsString,
    shell: OsString,
}

impl User {
    /// Looks a user up by name, or else by number; `None` if there is no such user.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub(crate) fn find(name_or_uid: &str) -> io::Result<Option<Self>> {
        let Ok(name) = CString::new(name_or_uid) else { return Ok(None) };
        // SAFETY: the name ends with a zero byte, and the other pointers are those that `entry` vouches for.
        let by_name = entry(|user, text, len, found| unsafe {
            libc::getpwnam_r(name.as_ptr(), user, text, len, found)
        });
        match (by_name, name_or_uid.parse()) {
            (Ok(None), Ok(uid)) => {
                // SAFETY: as above.
                entry(|user, text, len, found| unsafe { libc::getpwuid_r(uid, user, text, len, found) })
            }
            (by_name, _) => by_name,
        }
    }

    /// Returns the environment of the user's programs: what a login sets, and of this process's environment only how to find programs, and
    /// what describes terminal, display and language.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let is_kept =
            |name: &OsString| KEPT.iter().any(|kept| name == kept) || name.as_bytes().starts_with(b"LC_");
        let kept = std::env::vars_os().filter(|(name, _)| is_kept(name));
        let own =
            [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name), ("SHELL", &self.shell)];
        kept.chain(own.map(|(name, value)| (name.into(), value.clone()))).collect()
    }

    /// Makes the calling process one of this user, without capabilities unless the user is root. It is safe between fork and exec.
    ///
    /// # Errors
    /// The error of the system call that failed; the process must end then.
    pub(super) fn take_over(&self) -> io::Result<()> {
        let (version, nothing) = ([CAPABILITY_VERSION, 0], [0u32; 6]);
        // SAFETY: plain system calls; the pointers are to arrays of the lengths that the calls expect. Groups come first, since only
        // root may change them. A change from user 0 to another one takes the capabilities, except for the inheritable
        // ones and under unusual `securebits`; the last call takes them in any case.
        let is_done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
                && (self.uid == 0 || libc::syscall(libc::SYS_capset, version.as_ptr(), nothing.as_ptr()) == 0)
        };
        if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the user with whose rights this process runs.
pub(crate) fn own() -> u32 {
    // SAFETY: takes no pointers.
    unsafe { libc::geteuid() }
}

/// Returns true if this process may become any user.
pub(crate) fn is_root() -> bool {
    own() == 0
}

/// Reads an entry of the user database with `getpwnam_r` or `getpwuid_r`, which `look_up` calls with room for the entry, room for its
/// text, the length of the latter, and room for a pointer to the entry.
fn entry(
    look_up: impl Fn(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<User>> {
    let mut text: Vec<libc::c_char> = vec![0; 1 << 10];
    loop {
        // SAFETY: an all-zero passwd is a valid value.
        let mut user: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match look_up(&raw mut user, text.as_mut_ptr(), text.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => break User::of_entry(&user).map(Some),
            libc::ERANGE if text.len() < MAX_ENTRY_BYTES => text.resize(text.len() * 2, 0),
            // What no source of the database knows.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl User {
    /// Copies an entry that was just read, and looks up the groups.
    fn of_entry(user: &libc::passwd) -> io::Result<Self> {
        // SAFETY: the texts of an entry that was found end with a zero byte, and live until the next call.
        let copy = |text: *const libc::c_char| unsafe {
            OsString::from_vec(if text.is_null() {
                Vec::new()
            } else {
                CStr::from_ptr(text).to_bytes().to_vec()
            })
        };
        let shell = Some(copy(user.pw_shell)).filter(|shell| !shell.is_empty());
        Ok(Self {
            uid: user.pw_uid,
            gid: user.pw_gid,
            groups: groups(user.pw_name, user.pw_gid)?,
            name: copy(user.pw_name),
            home: copy(user.pw_dir),
            shell: shell.unwrap_or_else(|| OsStr::from_bytes(b"/bin/sh").to_owned()),
        })
    }
}

/// Returns the groups of a user; `gid` is among them.
fn groups(name: *const libc::c_char, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut len = groups.len() as libc::c_int;
        // SAFETY: the name of an entry ends with a zero byte, and there is room for `len` groups.
        let count = unsafe { libc::getgrouplist(name, gid, groups.as_mut_ptr(), &raw mut len) };
        if count >= 0 {
            groups.truncate(count as usize);
            return Ok(groups);
        }
        if groups.len() >= MAX_GROUPS {
            return Err(io::Error::other("too many groups"));
        }
        groups.resize(groups.len() * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let root = User::find("root").expect("a database").expect("every machine has root");
        assert_eq!((root.uid, root.gid, &root.name), (0, 0, &OsString::from("root")));
        assert!(root.groups.contains(&0));
        assert_eq!(User::find("0").expect("a database"), Some(root));
    }

    #[test]
    fn who_is_not_there_is_not_found() {
        for name in ["no such user", "", "4294967294", "-1", "a\0b"] {
            assert_eq!(User::find(name).expect("a database"), None, "{name:?}");
        }
    }
}
