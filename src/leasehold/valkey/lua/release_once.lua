-- Ends the lease of this token as release does, for callers whose driver may silently repeat the command.
-- KEYS: lock, fence, queue, readers, people, released
-- ARGV: token, remember_ms
-- Returns: 1 when it ended a lease, also when asked again; 0 when that had ended before
local lock, fence, queue, readers, people, released = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, remember_ms = ARGV[1], ARGV[2]

-- Uses: clock, fence, record, waiters, readers, advance_queue, lease, release_token
if release_token(token) == 1 then
  redis.call('SET', released, token, 'PX', remember_ms)
  return 1
end
return redis.call('GET', released) == token and 1 or 0
