-- What is true now. Whoever looks first after a hold has run out writes that down, and tells.
-- KEYS: lock, fence, held_until, history
-- ARGV:
-- Returns: state
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- Uses: clock, fence, hold, past, telling, giving, settling
local _, text = settle()
return describe(text)
