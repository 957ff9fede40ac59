-- Opens a session for a caller that has its secret, and creates it if there is none. Each opening has its own epoch.
-- KEYS: session, history
-- ARGV: digest, ttl_ms
-- Returns: {digest, epoch}; the digest of the stored session, and 0 if that is not the one given
local session, history = KEYS[1], KEYS[2]
local digest, ttl_ms = ARGV[1], ARGV[2]

-- Uses: clock
local known = redis.call('HGET', session, 'digest')
if known and known ~= digest then return {known, 0} end
-- From the clock, so that it grows even after the session was forgotten.
local epoch = math.max(now_ms, (redis.call('HGET', session, 'epoch') or 0) + 1)
redis.call('HSET', session, 'digest', digest, 'epoch', whole(epoch))
redis.call('PEXPIRE', session, ttl_ms)
-- Entries of an earlier session of this id do not belong to a new one.
if not known then redis.call('DEL', history) end
return {digest, epoch}
