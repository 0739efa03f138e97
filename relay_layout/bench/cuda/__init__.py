"""Networks and layers on a GPU, beside torch and cuDNN."""
