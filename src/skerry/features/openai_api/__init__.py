"""Feature `openai_api`: answers HTTP requests of programs that speak the API of OpenAI."""
