"""Model families: `mock` without a network, `openai` for every endpoint that speaks OpenAI's chat completions."""
