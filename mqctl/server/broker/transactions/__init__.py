"""Half messages: stored out of sight, ended by their producers, asked about when they are not."""
