//! Reads lists of models.

use serde::Deserialize;

/// The names in a list of models, in its order.
pub(crate) fn model_names(list: &[u8]) -> serde_json::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let list: List = serde_json::from_slice(list)?;
    Ok(list.data.into_iter().map(|model| model.id).collect())
}
