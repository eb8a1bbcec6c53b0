"""Wire format `anthropic-messages` of model APIs: Claude, llama.cpp's server, others."""
