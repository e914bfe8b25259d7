//! Finds the credentials of each provider's own tools. Only their presence is reported, never their
//! value.

use std::env;
use std::path::{Path, PathBuf};

/// The environment variable that names a profile in Amazon's file.
const PROFILE: &str = "AWS_PROFILE";

/// The standard places of a provider's credentials.
pub struct Credentials {
    /// The scheme of its paths.
    pub scheme: &'static str,
    /// Environment variables; one of them is sufficient.
    variables: &'static [&'static str],
    /// Variables that must be set in addition to one of these.
    needs: &'static [(&'static str, &'static str)],
    /// Files: the variable that moves the file or its folder, the path to append to that folder,
    /// and the path below HOME when the variable is not set.
    files: &'static [(&'static str, &'static str, &'static str)],
    /// Advice for the user when credentials are missing or not sufficient.
    pub(super) remedy: &'static str,
}

/// The credentials of all providers.
pub static CREDENTIALS: [Credentials; 4] = [
    Credentials {
        scheme: "gs",
        variables: &[
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_PATH",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_BEARER_TOKEN",
            "GCE_METADATA_HOST",
        ],
        needs: &[],
        files: &[("", "", ".config/gcloud/application_default_credentials.json")],
        remedy: "set $GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth \
                 application-default login`; on Google's machines set \
                 $GCE_METADATA_HOST=metadata.google.internal",
    },
    Credentials {
        scheme: "s3",
        variables: &[
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_METADATA_ENDPOINT",
        ],
        // Without these, `object_store` would contact a metadata server.
        needs: &[
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        ],
        files: &[("AWS_SHARED_CREDENTIALS_FILE", "", ".aws/credentials")],
        remedy: "set $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or $AWS_PROFILE to a profile of \
                 ~/.aws/credentials; on Amazon's machines set \
                 $AWS_METADATA_ENDPOINT=http://169.254.169.254",
    },
    Credentials {
        scheme: "az",
        variables: &[
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_TOKEN",
            "AZURE_CLIENT_ID",
        ],
        needs: &[],
        files: &[],
        remedy: "set $AZURE_STORAGE_ACCOUNT_KEY or $AZURE_STORAGE_SAS_KEY",
    },
    Credentials {
        scheme: "hf",
        variables: &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"],
        needs: &[],
        files: &[("HF_TOKEN_PATH", "", ""), ("HF_HOME", "token", ".cache/huggingface/token")],
        remedy: "set $HF_TOKEN to a token of an account that may read it",
    },
];

impl Credentials {
    /// The credentials of the provider with this scheme.
    pub(super) fn of(scheme: &str) -> Option<&'static Self> {
        CREDENTIALS.iter().find(|credentials| credentials.scheme == scheme)
    }

    /// The place of the credentials that were found: `$HF_TOKEN`, or the file.
    pub fn found(&self) -> Option<String> {
        self.variable_found().map(|name| format!("${name}")).or_else(|| {
            let file = self.file().filter(|file| self.scheme != "s3" || has_keys(file))?;
            Some(file.display().to_string())
        })
    }

    /// The first variable that is set together with the variables that it needs.
    fn variable_found(&self) -> Option<&'static str> {
        let is_complete = |name: &str| {
            let mut needs = self.needs.iter().filter(|(of, _)| *of == name);
            variable(name).is_some() && needs.all(|(_, other)| variable(other).is_some())
        };
        self.variables.iter().copied().find(|name| is_complete(name))
    }

    /// The variable that the user should set first.
    pub fn variable(&self) -> &'static str {
        self.variables[0]
    }

    /// The first existing file.
    pub(super) fn file(&self) -> Option<PathBuf> {
        let place = |&(moved_by, below, usual): &(&str, &str, &str)| match variable(moved_by) {
            Some(moved) if below.is_empty() => Some(PathBuf::from(moved)),
            Some(moved) => Some(PathBuf::from(moved).join(below)),
            None if usual.is_empty() => None,
            None => Some(PathBuf::from(env::var_os("HOME")?).join(usual)),
        };
        self.files.iter().filter_map(place).find(|file| file.is_file())
    }
}

/// An environment variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The keys of the selected profile in Amazon's file.
pub(super) fn profile(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let section = variable(PROFILE).unwrap_or_else(|| "default".to_string());
    let owned = |(key, value): (&str, &str)| (key.to_string(), value.to_string());
    ini_section(&text, &section).into_iter().map(owned).collect()
}

fn has_keys(file: &Path) -> bool {
    profile(file).iter().any(|(key, _)| key == "aws_access_key_id")
}

/// Describes the problem with the user's profile, if its keys are the only credentials.
pub(super) fn missing_profile() -> Option<String> {
    let (name, amazon) = (variable(PROFILE)?, Credentials::of("s3")?);
    if amazon.found().is_some() {
        return None;
    }
    let place = match amazon.file() {
        Some(file) => format!("`{}` has no aws_access_key_id in [{name}]", file.display()),
        None => "there is no file ~/.aws/credentials, nor $AWS_SHARED_CREDENTIALS_FILE".to_string(),
    };
    Some(format!("${PROFILE} names the profile `{name}`, but {place}: add it, or unset ${PROFILE}"))
}

/// The keys of a section of an INI file such as `~/.aws/credentials`.
fn ini_section<'a>(text: &'a str, section: &str) -> Vec<(&'a str, &'a str)> {
    let mut inside = false;
    let mut keys = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if let Some((key, value)) = line.split_once('=')
            && inside
            && !line.starts_with(['#', ';'])
        {
            keys.push((key.trim(), value.trim()));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_its_section_alone() {
        let text = "[default]\naws_access_key_id = a\n# x = y\n[ other ]\naws_access_key_id=b\n";
        assert_eq!(ini_section(text, "default"), [("aws_access_key_id", "a")]);
        assert_eq!(ini_section(text, "other"), [("aws_access_key_id", "b")]);
        assert!(ini_section(text, "none").is_empty());
    }
}
