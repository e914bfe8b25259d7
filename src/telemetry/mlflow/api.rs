//! The requests of MLflow's REST interface that a run needs (MLflow, "REST API", version 2.0).

use std::collections::BTreeMap;
use std::time::Duration;

use gimlet_storage::{JsonRequest, Unanswered};
use serde_json::{Value, json};

use super::settings::MlflowSettings;

/// The longest time that a request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The greatest number of metrics and of parameters in a request.
pub(super) const MOST_NUMBERS: usize = 1000;
const MOST_PARAMS: usize = 100;

/// The greatest length of a parameter's value and of names, in characters.
const MOST_VALUE: usize = 6000;
const MOST_NAME: usize = 250;

/// A measured number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub key: String,
    pub value: f64,
    pub step: i64,
    /// Milliseconds since 1970.
    pub millis: u64,
}

/// A server.
pub(super) struct Api {
    settings: MlflowSettings,
}

impl Api {
    pub(super) fn new(settings: MlflowSettings) -> Self {
        Self { settings }
    }

    /// Returns the identifier of the experiment, which is created if it is missing.
    pub(super) fn experiment(&self) -> Result<String, Unanswered> {
        let name = &self.settings.experiment_name;
        let query: String = percent(name);
        let find = || self.ask(&format!("experiments/get-by-name?experiment_name={query}"), None);
        let found = match find() {
            Err(missing) if missing.status == Some(404) => {
                match self.ask("experiments/create", Some(json!({"name": name}))) {
                    Ok(created) => return text(&created["experiment_id"]),
                    // Another run has just created it.
                    Err(refused) if refused.status == Some(400) => find().map_err(|_| refused)?,
                    Err(error) => return Err(error),
                }
            }
            found => found?,
        };
        text(&found["experiment"]["experiment_id"])
    }

    /// Creates a run, and returns its identifier.
    pub(super) fn create_run(
        &self,
        name: &str,
        folder: &str,
        millis: u64,
    ) -> Result<String, Unanswered> {
        let experiment = self.experiment()?;
        let tags = json!([
            {"key": "mlflow.source.name", "value": "gimlet"},
            {"key": "mlflow.source.type", "value": "LOCAL"},
            {"key": "gimlet.model_dir", "value": folder},
        ]);
        let name = self.settings.run_name.as_deref().unwrap_or(name);
        let body = json!({
            "experiment_id": experiment, "run_name": name, "start_time": millis, "tags": tags
        });
        text(&self.ask("runs/create", Some(body))?["run"]["info"]["run_id"])
    }

    /// Sets the status of a run; an ended run gets its time.
    pub(super) fn update_run(
        &self,
        run_id: &str,
        status: &str,
        end_millis: Option<u64>,
    ) -> Result<(), Unanswered> {
        let mut body = json!({"run_id": run_id, "status": status});
        if let Some(millis) = end_millis {
            body["end_time"] = json!(millis);
        }
        self.ask("runs/update", Some(body)).map(drop)
    }

    /// Adds numbers to a run, at most [`MOST_NUMBERS`].
    pub(super) fn log(&self, run_id: &str, numbers: &[Number]) -> Result<(), Unanswered> {
        let metric = |number: &Number| {
            let Number { key, value, step, millis } = number;
            let value = if value.is_finite() { json!(value) } else { json!(not_finite(*value)) };
            json!({"key": sound(key), "value": value, "step": step, "timestamp": millis})
        };
        let metrics: Vec<Value> = numbers.iter().map(metric).collect();
        self.ask("runs/log-batch", Some(json!({"run_id": run_id, "metrics": metrics}))).map(drop)
    }

    /// Sets the parameters of a new run.
    pub(super) fn set_params(
        &self,
        run_id: &str,
        params: &BTreeMap<String, String>,
    ) -> Result<(), Unanswered> {
        let param = |(key, value): (&String, &String)| {
            let value: String = value.chars().take(MOST_VALUE).collect();
            json!({"key": sound(key), "value": value})
        };
        let params: Vec<Value> = params.iter().map(param).collect();
        params.chunks(MOST_PARAMS).try_for_each(|params| {
            self.ask("runs/log-batch", Some(json!({"run_id": run_id, "params": params}))).map(drop)
        })
    }

    fn ask(&self, path: &str, body: Option<Value>) -> Result<Value, Unanswered> {
        let MlflowSettings { tracking_uri, authorization, .. } = &self.settings;
        let url = format!("{tracking_uri}/api/2.0/mlflow/{path}");
        let authorization = authorization.as_deref();
        JsonRequest { url: &url, authorization, body: body.as_ref(), limit: LIMIT }.send()
    }
}

fn text(value: &Value) -> Result<String, Unanswered> {
    let said = || "the answer is not that of an MLflow server".to_string();
    value.as_str().map(str::to_string).ok_or_else(|| Unanswered { status: None, said: said() })
}

/// The name of a number that JSON cannot express, as protocol buffers write it.
fn not_finite(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// Replaces characters that MLflow does not accept in names.
fn sound(name: &str) -> String {
    let is_sound = |c: char| c.is_alphanumeric() || "_-. /:".contains(c);
    name.chars().take(MOST_NAME).map(|c| if is_sound(c) { c } else { '_' }).collect()
}

/// Escapes a name for the query of an address.
fn percent(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape =
        |byte| if is_plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escape).collect()
}
