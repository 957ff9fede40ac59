-- Gives back the editor's hold, and only that: to whoever marked it, if somebody did.
-- KEYS: lock, fence, held_until, history
-- ARGV: own_fence, user, tab, reason, saved
-- Returns: {'released' or 'lost', state}; own_fence may be '', for whichever hold of theirs it is
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own_fence, user, tab, reason, saved = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Uses: clock, fence, hold, past, telling, giving, settling
local hold, text = settle()
local is_own = hold and hold.user == user and hold.tab == tab
if not is_own or own_fence ~= '' and own_fence ~= hold.fence then return {'lost', describe(text)} end
return {'released', describe(give_back(hold, reason, saved == '1'))}
