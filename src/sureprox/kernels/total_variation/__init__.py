"""Steps on the dual of total variation denoising."""
