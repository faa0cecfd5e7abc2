"""Settings that servers with a chat platform share."""

TARGET = """
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "any"
"""
