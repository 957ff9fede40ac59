-- Writes down that a session of a user has ended, or with '*' every one that began before, and tells all workers.
-- KEYS: ended
-- ARGV: session, user, keep_ms
-- Returns: when, in milliseconds
local ended = KEYS[1]
local session, user, keep_ms = ARGV[1], ARGV[2], ARGV[3]

-- Uses: clock
redis.call('ZADD', ended, whole(now_ms), session)
-- The newest of them, so that nobody fills the store by signing in and out.
redis.call('ZREMRANGEBYRANK', ended, 0, -201)
redis.call('PEXPIRE', ended, keep_ms)
local notice = {kind = 'sessions_ended', user_id = user, session = session, at_ms = now_ms}
-- A hint, so it must not fail what it tells of: this user may not be allowed to publish.
redis.pcall('PUBLISH', 'doc_lock:notices', cjson.encode(notice))
return now_ms
