"""Wire format `openai-responses` of model APIs: the newer API of OpenAI."""
