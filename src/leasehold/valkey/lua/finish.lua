-- Keeps the result of work that is done once, and ends the lease that protected the work.
-- KEYS: lock, fence, queue, readers, people, result
-- ARGV: token, value, ttl_ms
-- Returns: 1 when kept, also when asked again; 0 when the lease had ended before, and then nothing is kept
local lock, fence, queue, readers, people, result = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, value, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

-- Uses: clock, fence, record, waiters, readers, advance_queue, lease, release_token
if not left_of(token, read_record()) then
  return redis.call('GET', result) == value and redis.call('PEXPIRE', result, ttl_ms) or 0
end
redis.call('SET', result, value, 'PX', ttl_ms)
release_token(token)
return 1
