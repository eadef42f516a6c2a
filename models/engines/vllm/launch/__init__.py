"""What a launch of vLLM says, and what the engine derives where it says nothing."""
