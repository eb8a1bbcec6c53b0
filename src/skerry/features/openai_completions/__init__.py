"""Wire format `openai-completions` of model APIs: OpenAI, local servers and most others."""
