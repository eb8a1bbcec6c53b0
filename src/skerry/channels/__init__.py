"""The delivery rules that chat platforms share."""
