//! The list of models, which is the one that is served.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::serve::shared::Shared;

/// Answers `GET /v1/models`.
pub async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let model = json!({
        "id": shared.about.name,
        "object": "model",
        "created": shared.started,
        "owned_by": "gimlet",
    });
    Json(json!({"object": "list", "data": [model]}))
}
