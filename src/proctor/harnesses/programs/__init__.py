"""Ready declarations of agent programs that many people use."""
