//! Reads the user's settings: servers, limits, the folder of the cache.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use icecore_files::private;

use super::{Budget, Cache};

/// How long a server may send too little, unless `DEBUGINFOD_TIMEOUT` says otherwise; elfutils has the same.
const STALL: Duration = Duration::from_secs(90);

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// An address whose scheme is not HTTP.
    #[error("cannot ask debuginfod server `{0}`: it must begin with http:// or https://")]
    Scheme(String),
    /// A variable of the environment that is no number.
    #[error("cannot read {name}=`{value}`")]
    Number {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// Why it is no number.
        source: std::num::ParseIntError,
    },
    /// There is no folder for downloads.
    #[error("cannot tell where downloads belong: set DEBUGINFOD_CACHE_PATH or HOME, or use --no-debuginfod")]
    Folder,
    /// Others can change the folder for downloads: a build-id proves nothing about a file that they could write.
    #[error("cannot keep downloads safe: set DEBUGINFOD_CACHE_PATH, or use --no-debuginfod")]
    Unsafe(#[from] private::Unsafe),
}

/// How the servers are used.
#[derive(Debug)]
pub struct Settings {
    /// Addresses without a slash at their ends; the servers are queried in this order.
    pub servers: Vec<String>,
    /// Addresses of the environment that are skipped: other clients know more schemes than HTTP.
    pub ignored: Vec<String>,
    /// The folder of downloads, in the layout of elfutils.
    pub cache: Cache,
    /// 100 KiB must arrive within this time.
    pub stall: Duration,
    /// The largest file, bytes.
    pub max_bytes: Option<u64>,
    /// The longest time of one download.
    pub max_time: Option<Duration>,
    /// What all downloads of a report together may cost.
    pub budget: Budget,
}

impl Settings {
    /// Combines the command line with the environment, as elfutils does: `DEBUGINFOD_URLS`, `_TIMEOUT` (s), `_MAXSIZE` (bytes),
    /// `_MAXTIME` (s), `_CACHE_PATH`, `XDG_CACHE_HOME`. `None` if there is no server: then the report downloads nothing, and does
    /// not look into the cache.
    ///
    /// # Errors
    /// If an address on the command line is not HTTP, a limit is no number, there is no folder for the cache, or others can change it.
    pub fn new(
        typed: &[String],
        budget: Budget,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, SettingsError> {
        let text = |name: &str| env(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
        let of_env = text("DEBUGINFOD_URLS");
        // elfutils allows words in this list that are no servers, such as `ima:enforcing`.
        let of_env = of_env.split_whitespace().filter(|word| !word.starts_with("ima:"));
        let servers: Vec<String> =
            if typed.is_empty() { of_env.map(str::to_owned).collect() } else { typed.to_vec() };
        if servers.is_empty() {
            return Ok(None);
        }
        let is_http =
            |server: &String| ["http://", "https://"].iter().any(|scheme| server.starts_with(scheme));
        let (servers, ignored): (Vec<String>, Vec<String>) = servers.into_iter().partition(is_http);
        if let (false, Some(server)) = (typed.is_empty(), ignored.first()) {
            return Err(SettingsError::Scheme(server.clone()));
        }
        let number = |name: &str| -> Result<Option<u64>, SettingsError> {
            match text(name).trim() {
                // As for elfutils, 0 means no limit.
                "" | "0" => Ok(None),
                value => value.parse().map(Some).map_err(|source| {
                    let (name, value) = (name.to_owned(), value.to_owned());
                    SettingsError::Number { name, value, source }
                }),
            }
        };
        let seconds = |name: &str| number(name).map(|s| s.map(Duration::from_secs));
        let folder = folder(&env).ok_or(SettingsError::Folder)?;
        private::check(&folder)?;
        Ok(Some(Self {
            servers: servers.iter().map(|server| server.trim_end_matches('/').to_owned()).collect(),
            ignored,
            cache: Cache::new(folder),
            stall: seconds("DEBUGINFOD_TIMEOUT")?.unwrap_or(STALL),
            max_bytes: number("DEBUGINFOD_MAXSIZE")?,
            max_time: seconds("DEBUGINFOD_MAXTIME")?,
            budget,
        }))
    }
}

/// Finds the folder that elfutils would use.
fn folder(env: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = path("HOME");
    let old = home.as_ref().map(|home| home.join(".debuginfod_client_cache")).filter(|old| old.exists());
    path("DEBUGINFOD_CACHE_PATH").or(old).or_else(|| {
        Some(path("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")))?.join("debuginfod_client"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(typed: &[&str], env: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
        let typed: Vec<String> = typed.iter().map(|text| (*text).to_owned()).collect();
        let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Settings::new(&typed, Budget::default(), env)
    }

    #[test]
    fn nothing_is_asked_unless_somebody_wants_it() {
        assert!(settings(&[], &[("HOME", "/h")]).expect("no error").is_none());
        assert!(settings(&[], &[("DEBUGINFOD_URLS", " \n ima:enforcing ")]).expect("no error").is_none());
    }

    #[test]
    fn what_was_typed_replaces_the_servers_of_the_environment() {
        let env = [("DEBUGINFOD_URLS", "http://a/ ima:permissive https://b"), ("HOME", "/h")];
        let found = settings(&[], &env).expect("no error").expect("servers");
        assert_eq!(found.servers, ["http://a", "https://b"]);
        assert_eq!((found.stall, found.max_bytes, found.max_time), (STALL, None, None));
        let found = settings(&["http://c"], &env).expect("no error").expect("servers");
        assert_eq!(found.servers, ["http://c"]);
    }

    #[test]
    fn what_the_environment_means_for_other_clients_is_ignored_and_told() {
        let env = [("DEBUGINFOD_URLS", "file:///x http://a"), ("HOME", "/h")];
        let found = settings(&[], &env).expect("no error").expect("servers");
        assert_eq!(
            (found.servers, found.ignored),
            (vec!["http://a".to_owned()], vec!["file:///x".to_owned()])
        );
        let found = settings(&[], &[("DEBUGINFOD_URLS", "file:///x"), ("HOME", "/h")]).expect("no error");
        assert!(found.is_some_and(|found| found.servers.is_empty() && found.ignored.len() == 1));
    }

    #[test]
    fn limits_and_the_folder_come_from_the_environment() {
        let env = |more: &[(&'static str, &'static str)]| {
            let env = [&[("DEBUGINFOD_URLS", "http://a"), ("HOME", "/h")], more].concat();
            settings(&[], &env).expect("no error").expect("servers")
        };
        let found =
            env(&[("DEBUGINFOD_TIMEOUT", "5"), ("DEBUGINFOD_MAXSIZE", "7"), ("DEBUGINFOD_MAXTIME", "9")]);
        assert_eq!((found.stall.as_secs(), found.max_bytes), (5, Some(7)));
        assert_eq!(found.max_time.map(|time| time.as_secs()), Some(9));
        assert_eq!(env(&[]).cache, Cache::new("/h/.cache/debuginfod_client".into()));
        let xdg = env(&[("XDG_CACHE_HOME", "/x")]);
        assert_eq!(xdg.cache, Cache::new("/x/debuginfod_client".into()));
        let own = env(&[("XDG_CACHE_HOME", "/x"), ("DEBUGINFOD_CACHE_PATH", "/c")]);
        assert_eq!(own.cache, Cache::new("/c".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_name() {
        let refusal = |typed: &[&str], env: &[(&str, &str)]| {
            let error = settings(typed, env).expect_err("refused");
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        };
        let text = refusal(&["ftp://x"], &[("HOME", "/h")]);
        assert_eq!(text, "cannot ask debuginfod server `ftp://x`: it must begin with http:// or https://");
        let text = refusal(&["http://x"], &[("HOME", "/h"), ("DEBUGINFOD_MAXSIZE", "1M")]);
        assert_eq!(text, "cannot read DEBUGINFOD_MAXSIZE=`1M`: invalid digit found in string");
        let text = refusal(&["http://x"], &[]);
        assert!(text.contains("set DEBUGINFOD_CACHE_PATH or HOME"), "{text}");
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().to_str().expect("text");
        let found = || settings(&["http://x"], &[("DEBUGINFOD_CACHE_PATH", path)]);
        assert!(found().is_ok());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("ours");
        let error = found().expect_err("refused");
        assert!(matches!(&error, SettingsError::Unsafe(private::Unsafe::Open { .. })), "{error}");
        assert!(error.to_string().contains("set DEBUGINFOD_CACHE_PATH"), "{error}");
    }
}
