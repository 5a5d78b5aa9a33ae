module warpweft/peer

go 1.22
