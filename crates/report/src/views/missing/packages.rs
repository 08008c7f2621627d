//! Finds the packages of this machine's distribution that have the debug files of images.

use std::collections::HashMap;
use std::path::Path;

use icecore_text::path::quoted;

/// The folder in which dpkg keeps a list of files for each package.
const LISTS: &str = "var/lib/dpkg/info";

/// How the distribution names packages of debug files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// Debian and what descends from it: `xz-utils-dbgsym`.
    Dpkg,
    /// Fedora and what descends from it: `dnf debuginfo-install` knows.
    Dnf,
    /// `xz-debuginfo`.
    Zypper,
}

/// The packages to which paths belong.
#[derive(Debug)]
pub(super) struct Packages {
    naming: Option<Naming>,
    of_path: HashMap<String, String>,
}

impl Packages {
    /// Looks paths up below the root of a machine. What cannot be read has no packages.
    pub(super) fn read<'p>(root: &Path, paths: impl Iterator<Item = &'p str>) -> Self {
        let release = std::fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
        let ids = release.lines().filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            matches!(key, "ID" | "ID_LIKE").then(|| value.trim_matches(['"', '\'']))
        });
        let naming = ids.flat_map(str::split_whitespace).find_map(|id| match id {
            "debian" | "ubuntu" => Some(Naming::Dpkg),
            "fedora" | "rhel" => Some(Naming::Dnf),
            "suse" | "opensuse" => Some(Naming::Zypper),
            _ => None,
        });
        // Where `/lib` is a link to `/usr/lib`, lists can have either path.
        let both = |path: &'p str| [Some(path), path.strip_prefix("/usr")].map(|it| Some((it?, path)));
        let wanted: HashMap<&str, &str> = match naming {
            Some(Naming::Dpkg) => paths.flat_map(both).flatten().collect(),
            _ => HashMap::new(),
        };
        let lists = (!wanted.is_empty()).then(|| std::fs::read_dir(root.join(LISTS)).ok()).flatten();
        let mut of_path = HashMap::new();
        for list in lists.into_iter().flatten().flatten() {
            let name = list.file_name().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".list") else { continue };
            let package = name.split(':').next().unwrap_or(name);
            let files = std::fs::read(list.path()).unwrap_or_default();
            let files = files.split(|byte| *byte == b'\n').filter_map(|file| std::str::from_utf8(file).ok());
            let found = files.filter_map(|file| wanted.get(file));
            of_path.extend(found.map(|path| ((*path).to_owned(), package.to_owned())));
        }
        Self { naming, of_path }
    }

    /// The package that has a path, if that is known.
    pub(super) fn package(&self, path: &str) -> Option<&str> {
        self.of_path.get(path).map(String::as_str)
    }

    /// The command that installs the debug files of an image.
    pub(super) fn command(&self, path: &str) -> Option<String> {
        let quoted = quoted(Path::new(path));
        match self.naming? {
            Naming::Dpkg => {
                let package = self.package(path)?;
                let debug =
                    if package == "libc6" { "libc6-dbg".to_owned() } else { format!("{package}-dbgsym") };
                Some(format!("apt install {debug}  (from the distribution's archive of debug packages)"))
            }
            Naming::Dnf => Some(format!("dnf debuginfo-install \"$(rpm -qf {quoted})\"")),
            Naming::Zypper => {
                Some(format!("zypper install \"$(rpm -qf --qf '%{{NAME}}' {quoted})-debuginfo\""))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands on a machine that has this `os-release`.
    fn commands(release: &str) -> Vec<Option<String>> {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("etc/os-release", release);
        write("var/lib/dpkg/info/xz-utils.list", "/.\n/usr/bin/xz\n/usr/bin/xzcat\n");
        write("var/lib/dpkg/info/liblzma5:amd64.list", "/lib/x86_64-linux-gnu/liblzma.so.5.4.1\n");
        write("var/lib/dpkg/info/libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n");
        write("var/lib/dpkg/info/xz-utils.md5sums", "/usr/bin/own\n");
        let lib = "/usr/lib/x86_64-linux-gnu";
        let paths =
            ["/usr/bin/xz", &format!("{lib}/liblzma.so.5.4.1"), &format!("{lib}/libc.so.6"), "/usr/bin/own"];
        let packages = Packages::read(root.path(), paths.into_iter());
        paths.iter().map(|path| packages.command(path)).collect()
    }

    #[test]
    fn debug_files_come_in_packages_that_the_distribution_names() {
        let of_debian = |release: &str| {
            let commands = commands(release).into_iter();
            commands
                .map(|it| it.map(|it| it.split("  ").next().expect("a part").to_owned()))
                .collect::<Vec<_>>()
        };
        let debug =
            ["xz-utils-dbgsym", "liblzma5-dbgsym", "libc6-dbg"].map(|it| Some(format!("apt install {it}")));
        let all: Vec<Option<String>> = debug.into_iter().chain([None]).collect();
        assert_eq!(of_debian("NAME=x\nID=debian\n"), all);
        assert_eq!(of_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), all);
        assert_eq!(
            commands("ID=fedora\n")[0].as_deref(),
            Some("dnf debuginfo-install \"$(rpm -qf /usr/bin/xz)\"")
        );
        assert!(
            commands("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n")[0]
                .as_deref()
                .is_some_and(|it| it.ends_with("-debuginfo\""))
        );
        assert_eq!(commands("ID=arch\n"), [None, None, None, None]);
        assert_eq!(commands(""), [None, None, None, None]);
    }
}
