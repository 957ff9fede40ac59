-- Grants the lock if it is free, extends it if the editor holds it, and moves it from another tab of the same person.
-- KEYS: lock, fence, held_until, history
-- ARGV: ask, user, name, tab, ttl_ms, floor, move
-- Returns: {'granted' or 'busy', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask, user, name, tab, ttl_ms, floor, move = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
local is_own = hold and hold.user == user
if is_own and hold.tab == tab then return {'granted', state_json(extend(hold, ask, tonumber(ttl_ms)))} end
if hold and (not is_own or move == '0' or hold.taking) then return {'busy', state_json(text)} end

-- Before anything else is written: a server that is out of memory refuses the first such write of a script only.
local count = mint(floor)
if hold then end_hold(hold, 'moved', now_ms, hold) end
local _, given = begin_hold({user = user, name = name, tab = tab}, ask, count, tonumber(ttl_ms))
return {'granted', state_json(given)}
