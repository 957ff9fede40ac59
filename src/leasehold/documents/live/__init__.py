"""Sends the changes of document locks to clients, over sockets."""
