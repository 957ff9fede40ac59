"""Telling everybody who watches a document what happens to its lock, over sockets.

endpoint    the handshake: who may connect at all
socket      one connection, from its first message to its close
talking     what a signed-in socket may ask
outbox      what one socket is still to be told
hub         one per worker: which sockets watch which documents, and what they are told
room        one document that is watched
deadlines   when to look at a lock again, although nothing was heard
news        a change as text, for each who is told
tickets     letting a socket in without a token in its URL
notices     what workers tell each other: changed rights, ended sign-ins
"""
