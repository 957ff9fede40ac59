-- Ends the lease of this token, or its waiting, and only that. The lock goes to whoever is next.
-- KEYS: lock, fence, queue, readers, people
-- ARGV: token
-- Returns: 1 when a lease has ended, 0 when it was gone before
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

-- The path that counts: nobody waits.
local record = redis.call('GET', lock)
if record and string.sub(record, 1, 34) == '2x' .. token then return redis.call('DEL', lock) end

-- Uses: clock, fence, record, people, reading, granting, holding, leaving
return leave(token)
