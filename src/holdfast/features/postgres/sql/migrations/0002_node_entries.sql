-- `identity` names the machine and the data directory of a node, so that its next process can tell that this row
-- is its own. `offers` are the targets, tools and MCP servers that it has, each with a digest of its settings.
ALTER TABLE nodes ADD COLUMN identity text   NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN offers   text[] NOT NULL DEFAULT '{}';
