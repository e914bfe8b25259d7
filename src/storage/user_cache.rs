//! The folder of what Gimlet keeps for a user between runs, and can make again.

use std::env;
use std::path::PathBuf;

/// Returns `gimlet` in `XDG_CACHE_HOME`, or in `.cache` of the home folder; none without either.
pub fn user_cache() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let in_home = || env::home_dir().map(|home| home.join(".cache"));
    named.or_else(in_home).map(|caches| caches.join("gimlet"))
}
