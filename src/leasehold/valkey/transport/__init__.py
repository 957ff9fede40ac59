"""Connections to Valkey and Redis: protocol, handshake, reconnection and errors."""
