"""The models that can be tuned without uploading anything."""
