"""Wire format `google-generative-ai` of model APIs: Gemini."""
