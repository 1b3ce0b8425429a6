// Pictures for campaigns: each is a file of the spool, and an account has the same one once. However a picture goes,
// also with its account, its file is noted, so that it is removed even when the server ends in between.

export const images = `
create table images (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  name text not null,
  content_type text not null,
  width integer not null,
  height integer not null,
  size integer not null,
  hash blob not null,
  spool text not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index images_by_hash on images (user_key, hash);
create index images_by_creation on images (user_key, created_at);
create index images_by_size on images (user_key, size);

create table images_gone (
  spool text primary key
) strict, without rowid;
create trigger images_leave_files after delete on images
  begin insert or ignore into images_gone values (old.spool); end;

create table image_uses (
  image_key integer not null references images on delete cascade,
  campaign_key integer not null references campaigns on delete cascade,
  primary key (image_key, campaign_key)
) strict, without rowid;
create index image_uses_by_campaign on image_uses (campaign_key);
`
