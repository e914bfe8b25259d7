//! Opens buckets as each provider's standard environment describes them. Without credentials there,
//! buckets are read as public, and no metadata server is contacted.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectStore, RetryConfig};

use super::client::{Connector, runtime};
use super::failure::Failure;
use super::object::Bucket;
use crate::credentials::{Credentials, missing_profile, profile, variable};

/// The bucket of a path such as `gs://NAME/...`.
pub(super) fn bucket(scheme: &str, name: &str) -> Result<Bucket, Failure> {
    // Building a store may start a task that renews its credentials.
    let _entered = runtime().enter();
    if let Some(missing) = (scheme == "s3").then(missing_profile).flatten() {
        return Err(Failure::Permanent(missing));
    }
    let anonymous = Credentials::of(scheme).is_none_or(|credentials| credentials.found().is_none());
    let build = |connector: Connector| -> Result<Arc<dyn ObjectStore>, Failure> {
        let built: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
            "gs" => google(name, connector, anonymous),
            "s3" => amazon(name, connector, anonymous),
            _ => azure(name, connector, anonymous),
        };
        built.map_err(|error| Failure::Permanent(reason(scheme, &error)))
    };
    Ok(Bucket { once: build(Connector::Once)?, patient: build(Connector::Patient)?, anonymous })
}

fn google(name: &str, connector: Connector, anonymous: bool) -> Built {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(name)
        .with_retry(once())
        .with_http_connector(connector);
    // Google's own client libraries use this variable for the address of a test server.
    if let Some(endpoint) = variable("STORAGE_EMULATOR_HOST") {
        let has_scheme = endpoint.contains("://");
        let endpoint = if has_scheme { endpoint } else { format!("http://{endpoint}") };
        builder = builder.with_base_url(&endpoint);
    }
    if anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn amazon(name: &str, connector: Connector, anonymous: bool) -> Built {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_retry(once())
        .with_http_connector(connector);
    let file = Credentials::of("s3").and_then(Credentials::file);
    for (key, value) in file.iter().flat_map(|file| profile(file)).filter_map(setting) {
        if builder.get_config_value(&key).is_none() {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    if anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn azure(name: &str, connector: Connector, anonymous: bool) -> Built {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(name)
        .with_retry(once())
        .with_http_connector(connector);
    if anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

type Built = object_store::Result<Arc<dyn ObjectStore>>;

/// The setting for a key of Amazon's file.
fn setting((key, value): (String, String)) -> Option<(AmazonS3ConfigKey, String)> {
    let key = match &key[..] {
        "aws_access_key_id" => AmazonS3ConfigKey::AccessKeyId,
        "aws_secret_access_key" => AmazonS3ConfigKey::SecretAccessKey,
        "aws_session_token" => AmazonS3ConfigKey::Token,
        "region" => AmazonS3ConfigKey::Region,
        _ => return None,
    };
    Some((key, value))
}

/// `object_store` makes each request only once: see [`Connector`].
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Describes why the store cannot be built, in terms of the user's settings.
fn reason(scheme: &str, error: &object_store::Error) -> String {
    let hint = match scheme {
        "az" if variable("AZURE_STORAGE_ACCOUNT_NAME").is_none() => {
            "; set $AZURE_STORAGE_ACCOUNT_NAME to the account that holds the container"
        }
        _ => "",
    };
    format!("its settings in the environment are not usable: {error}{hint}")
}
