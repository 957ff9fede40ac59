-- Who holds the lock. The token stays here.
-- KEYS: lock, fence
-- ARGV:
-- Returns: {public, left_ms, fence}; public is '' and left_ms negative when nobody holds it
local lock, fence = KEYS[1], KEYS[2]

-- Uses: record
local _, public = read_record(lock)
return {public or '', redis.call('PTTL', lock), redis.call('GET', fence) or ''}
