"""Wire format `anthropic-messages` of model APIs: Claude, the server of llama.cpp, and others."""
