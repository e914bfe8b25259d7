//! The server, the experiment and the credentials, from gin and from MLflow's own environment variables.

use std::env;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// MLflow's variable with the address of the server.
const TRACKING_URI: &str = "MLFLOW_TRACKING_URI";

/// The destination of a run's numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct MlflowSettings {
    /// The address of the server, without a slash at its end.
    pub tracking_uri: String,
    /// The name of the experiment.
    pub experiment_name: String,
    /// The name of the run; by default that of its folder.
    pub run_name: Option<String>,
    /// The run of MLflow to continue, instead of the folder's own.
    pub run_id: Option<String>,
    /// The value of the header `authorization`, a secret.
    pub(super) authorization: Option<String>,
}

/// Settings with which nothing can be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlflowError {
    /// There is no address.
    #[error(
        "MLflowLogger has no server: set the variable MLFLOW_TRACKING_URI, or bind \
         gimlet.MLflowLogger.tracking_uri = 'http://HOST:5000'"
    )]
    NoServer,
    /// The address is not that of a server.
    #[error(
        "MLflowLogger: the tracking URI is `{0}`, expected http://... or https://...: databases and folders are \
         written by a server, `mlflow server --backend-store-uri ...`"
    )]
    NotAServer(String),
}

impl MlflowSettings {
    /// Completes what gin binds by the environment.
    ///
    /// # Errors
    /// There is no address, or it is not that of a server.
    pub fn resolve(
        tracking_uri: Option<&str>,
        experiment_name: Option<&str>,
        run_name: Option<&str>,
    ) -> Result<Self, MlflowError> {
        Self::resolve_with([tracking_uri, experiment_name, run_name], |name| {
            env::var(name).ok().filter(|value| !value.is_empty())
        })
    }

    fn resolve_with(
        [tracking_uri, experiment_name, run_name]: [Option<&str>; 3],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, MlflowError> {
        let or = |bound: Option<&str>, name| bound.map(str::to_string).or_else(|| variable(name));
        let uri = or(tracking_uri, TRACKING_URI).ok_or(MlflowError::NoServer)?;
        if !uri.starts_with("http://") && !uri.starts_with("https://") {
            return Err(MlflowError::NotAServer(uri));
        }
        let basic = || {
            let user = variable("MLFLOW_TRACKING_USERNAME")?;
            let password = variable("MLFLOW_TRACKING_PASSWORD").unwrap_or_default();
            Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
        };
        let token = variable("MLFLOW_TRACKING_TOKEN").map(|token| format!("Bearer {token}"));
        let experiment = or(experiment_name, "MLFLOW_EXPERIMENT_NAME");
        Ok(Self {
            tracking_uri: uri.trim_end_matches('/').to_string(),
            experiment_name: experiment.unwrap_or_else(|| "Default".to_string()),
            run_name: or(run_name, "MLFLOW_RUN_NAME"),
            run_id: variable("MLFLOW_RUN_ID"),
            authorization: basic().or(token),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        bound: [Option<&str>; 3],
        variables: &[(&str, &str)],
    ) -> Result<MlflowSettings, MlflowError> {
        let found = |name: &str| variables.iter().find(|(key, _)| *key == name);
        MlflowSettings::resolve_with(bound, |name| found(name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn gin_comes_before_the_environment() {
        let variables =
            [("MLFLOW_TRACKING_URI", "http://env/"), ("MLFLOW_EXPERIMENT_NAME", "theirs")];
        let settings = resolve([None, Some("mine"), None], &variables).ok().unwrap();
        assert_eq!((&*settings.tracking_uri, &*settings.experiment_name), ("http://env", "mine"));
        let settings = resolve([Some("https://gin"), None, None], &[]).ok().unwrap();
        assert_eq!(
            (&*settings.tracking_uri, &*settings.experiment_name),
            ("https://gin", "Default")
        );
    }

    #[test]
    fn an_address_that_is_no_server_s_is_a_mistake() {
        let message = |uri| resolve([uri, None, None], &[]).err().unwrap().to_string();
        assert!(message(None).contains("set the variable MLFLOW_TRACKING_URI"));
        assert!(message(Some("sqlite:///a.db")).contains("is `sqlite:///a.db`, expected http://"));
    }

    #[test]
    fn credentials_are_those_of_mlflow() {
        let authorization = |variables: &[(&str, &str)]| {
            resolve([Some("http://a"), None, None], variables).ok().unwrap().authorization
        };
        assert_eq!(authorization(&[]), None);
        let token = ("MLFLOW_TRACKING_TOKEN", "t");
        assert_eq!(authorization(&[token]).unwrap(), "Bearer t");
        let user = [token, ("MLFLOW_TRACKING_USERNAME", "a"), ("MLFLOW_TRACKING_PASSWORD", "b")];
        assert_eq!(authorization(&user).unwrap(), "Basic YTpi");
    }
}
