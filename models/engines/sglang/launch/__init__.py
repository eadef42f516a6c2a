"""What an SGLang launch line says, and what the engine makes of it."""
