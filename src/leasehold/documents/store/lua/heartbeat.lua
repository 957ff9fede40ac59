-- Extends the editor's hold. Never re-creates one that has ended.
-- KEYS: lock, fence, held_until, history
-- ARGV: idle_ms, user, tab, ttl_ms
-- Returns: {'extended' or 'lost', state}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local idle_ms, user, tab, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
if not hold or hold.user ~= user or hold.tab ~= tab then return {'lost', state_json(text)} end
-- A hold that was handed over is only extended by the call that it was handed to, after its fence is registered.
if hold.unclaimed then return {'extended', state_json(text)} end
local idle_since_ms = idle_ms ~= '' and now_ms - idle_ms or nil
return {'extended', state_json(extend(hold, hold.ask, tonumber(ttl_ms), idle_since_ms))}
