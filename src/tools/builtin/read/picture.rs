//! Shows a picture to the model.

use std::path::Path;

use bytes::Bytes;
use serde_json::json;

use super::media::Media;
use crate::tools::answer::IMAGE_ATTACHED;
use crate::tools::picture::{self, DecodingTime};
use crate::tools::tool::{CallContext, PictureFormat, ToolError, ToolOutput};

pub(super) async fn read(
    media: Media,
    format: PictureFormat,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    media.with_contents(context, move |path, bytes| show(path, bytes, format)).await
}

fn show(path: &Path, bytes: Bytes, format: PictureFormat) -> Result<ToolOutput, ToolError> {
    let name = path.display().to_string();
    let size = bytes.len();
    let prepared = picture::prepare(bytes, format, DecodingTime::of_a_call()).map_err(|error| {
        ToolError::Failed(format!("{name} is a {} picture, but {error}", format.name()))
    })?;
    let mut text = format!("{IMAGE_ATTACHED} {name}: {}", prepared.described(format));
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    if extension.is_some_and(|extension| !format.is_called(&extension)) {
        text.push_str("\n(the contents decide what it is, not the name)");
    }
    let structured = json!({
        "file_path": path.to_string_lossy(),
        "format": format.name(),
        "width": prepared.original.0,
        "height": prepared.original.1,
        "bytes": size,
    });
    let pictures = vec![prepared.attached(name)];
    Ok(ToolOutput { pictures, ..ToolOutput::text(text).with(structured) })
}
