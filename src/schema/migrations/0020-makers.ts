// A token knows the token that made it: it is revoked with its maker, and its recipients count against the maker's
// limit.

export const makers = `
alter table tokens add column maker_key integer references tokens (key) on delete cascade;
create index tokens_made on tokens (maker_key) where maker_key is not null;
`
