"""Model families: `openai` and `anthropic` behind endpoints, `local` on this machine, `mock` without any model."""
