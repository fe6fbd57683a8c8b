//! demo_model
