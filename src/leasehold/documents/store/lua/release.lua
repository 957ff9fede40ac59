-- Releases the editor's hold, and no other; hands it over to the taker that marked it, if there is one.
-- KEYS: lock, fence, held_until, history
-- ARGV: own_fence, user, tab, reason, saved
-- Returns: {'released' or 'lost', state}; own_fence may be '', for any hold of the editor
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own_fence, user, tab, reason, saved = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
local hold, text = apply_expiry()
local is_own = hold and hold.user == user and hold.tab == tab
if not is_own or own_fence ~= '' and own_fence ~= hold.fence then return {'lost', state_json(text)} end
return {'released', state_json(end_or_hand_over(hold, reason, saved == '1'))}
