//! The JSON form in which a tool is offered to the model.
