// OAuth clients whose client_id is the URL of their metadata document: until when what was read there counts.
export const oauthDocuments = `
alter table oauth_clients add column fresh_until integer;
`
