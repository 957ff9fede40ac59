-- Stores that a session of a user has ended, or with '*' all that began before, and notifies all workers.
-- KEYS: ended
-- ARGV: session, user, keep_ms
-- Returns: the time, in milliseconds
local ended = KEYS[1]
local session, user, keep_ms = ARGV[1], ARGV[2], ARGV[3]

-- Uses: clock
redis.call('ZADD', ended, whole(now_ms), session)
-- Keeps the newest, so that a user who logs in and out again and again does not fill the store.
redis.call('ZREMRANGEBYRANK', ended, 0, -201)
redis.call('PEXPIRE', ended, keep_ms)
local notice = {kind = 'sessions_ended', user_id = user, session = session, at_ms = now_ms}
-- A hint, so it must not fail the change: this user of the store may not be allowed to publish.
redis.pcall('PUBLISH', 'doc_lock:notices', cjson.encode(notice))
return now_ms
